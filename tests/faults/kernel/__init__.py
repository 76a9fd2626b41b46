"""The agent kernel killed for real: one process does a job, is killed anywhere, and the next one goes on.

`work` is what there is to do, `outside` is the world that counts what was done, `points` names the instants, `life` is
one process, `runs` one job through as many processes as it takes, `campaign` many of those beside each other.
"""
