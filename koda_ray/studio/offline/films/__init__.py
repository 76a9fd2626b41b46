"""One module a family of subjects: each turns a brief into parts, their values and their keyframes."""
