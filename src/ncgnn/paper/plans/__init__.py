"""Plans of runs that are kept beside the code, and the tables of the results pages."""
