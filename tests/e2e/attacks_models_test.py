"""Attacks by way of models: those that answer often, encoders, adapters, the forms of texts, and gateways."""

import attacks
import harness

Attacks = attacks.cases('decoupled', 'embeddings', 'scores', 'grammars', 'generate', 'llama_cpp', 'adapters', 'gateways')

if __name__ == '__main__':
    harness.main()
