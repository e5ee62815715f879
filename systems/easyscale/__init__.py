"""EasyScale's planning: numbers in, plans out."""
