"""Certificates: derivations as files of Coq, whose kernel checks them."""
