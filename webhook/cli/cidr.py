"""Ranges of addresses on the command line: 10.0.0.0/28,2001:db8::/64."""

from ipaddress import ip_network

import click


def cidrs(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    """The callback of an option: each as a NetworkPolicy takes it; an address is one of one."""
    try:
        return tuple(str(ip_network(one.strip())) for one in text.split(",") if one.strip())
    except ValueError as error:
        raise click.BadParameter(f"{error}: give ranges such as 10.0.0.0/28") from error
