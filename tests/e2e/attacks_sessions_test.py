"""Attacks on what is kept for a client: nodes of a session, files, jobs, responses, and whose they are."""

import attacks
import harness

Attacks = attacks.cases('evergreen', 'journal', 'guessing', 'responses', 'response_sockets')

if __name__ == '__main__':
    harness.main()
