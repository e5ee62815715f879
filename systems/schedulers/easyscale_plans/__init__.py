"""Planning of EasyScale: numbers in, plans out."""
