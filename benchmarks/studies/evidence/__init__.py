"""What evidence is worth: twelve trainings whose metrics are hard to judge, and settings that were fixed beforehand."""
