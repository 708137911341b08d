"""The store of an installation on the command line: one that pods can share, and no password."""

from pathlib import PurePosixPath

import click

from webhook.manifest.rendering import KEY, MOUNT, STORE_SECRET, SharedStore
from webhook.store.address import BadStoreError, ValkeyAddress, parse_store


def shared_store(_: click.Context, __: click.Parameter, text: str | None) -> SharedStore | None:
    """The callback of an option."""
    if text is None:
        return None
    try:
        address = parse_store(text, is_here=False)
    except BadStoreError as error:
        raise click.BadParameter(str(error)) from error
    if not isinstance(address, ValkeyAddress):
        raise click.BadParameter("replicas share a Valkey or Redis: valkey://host:port/db")
    if address.password is not None:
        raise click.BadParameter(
            "everybody who may see the Deployment would see the password: put it in "
            f"secret/{STORE_SECRET}, and write ?password-file={MOUNT}/password"
        )
    if address.key_file is None:
        raise click.BadParameter(
            "who can write to the store could choose what is put back into objects: put a key that "
            f"it never sees into secret/{STORE_SECRET}, with openssl rand -hex 32, and write "
            f"?key-file={MOUNT}/{KEY}"
        )
    for file in (address.password_file, address.key_file, address.cafile):
        if file is not None and PurePosixPath(file).parent != MOUNT:
            raise click.BadParameter(f"{file}: the pods have keys of {STORE_SECRET} in {MOUNT}/")
    return SharedStore(text, address.host, address.port)
