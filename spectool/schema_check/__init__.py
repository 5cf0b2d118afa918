"""Check files as they stand in a repository: Speculators configs, deployment files, dialect files, records.

Neither weights nor a network are needed. A config's rules are those of `validate`, run on the folder it promises.
"""
