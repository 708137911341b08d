"""Lets `python -m webhook` run genguard. The worker for CEL loads this module, and runs nothing."""

if __name__ == "__main__":
    from webhook.cli import main

    main(prog_name="genguard")
