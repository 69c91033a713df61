"""What this computer can do, found out without torch and without starting a process."""
