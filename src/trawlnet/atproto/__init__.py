"""The AT Protocol as bytes and values: CIDs, CBOR, CAR, the repository tree. Pure, no I/O."""
