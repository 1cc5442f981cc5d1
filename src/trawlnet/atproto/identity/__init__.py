"""Who an account is: keys, DID documents, PLC operations, signed tokens. Pure."""
