# The image's PATH for login shells, which Debian's begin anew: Ray's launcher starts everything on a node in one.
PATH=/opt/koda/.koda/venv/bin:/opt/koda/.koda/bin:$PATH
