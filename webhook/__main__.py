"""`python -m webhook` is `genguard`."""

from webhook.cli import main

main(prog_name="genguard")
