"""The AT Protocol as bytes and values: CIDs, CBOR, identities, lexicons. Pure, no I/O."""
