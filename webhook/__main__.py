"""Lets `python -m webhook` run genguard."""

from webhook.cli import main

main(prog_name="genguard")
