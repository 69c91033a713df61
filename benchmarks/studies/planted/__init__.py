"""Problems planted in small trainings, and what advice says of them."""
