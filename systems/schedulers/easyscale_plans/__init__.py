"""Planning of EasyScale as computation with numbers only."""
