// `weir chat`: a conversation with a model on the terminal, over the OpenAI API.
#pragma once

#include <string>

#include "app/remote.h"

namespace weir::app {

struct ChatOptions {
  std::string model;   // empty: the first one that the server lists
  std::string system;  // the system message; empty: none
  uint32_t max_tokens = 512;
  double temperature = -1;  // below 0: the server's default
};

// Reads a line from standard input, prints the answer as it comes; again until the end of the input or "/quit". Where a
// person types, standard error has the prompt, how fast the answer came, and what went wrong, and Ctrl-C stops an
// answer, or leaves where none is coming; else the first error ends it with exit code 1. Lines that begin with '/' are
// commands: /help lists them. Lines between two lines of """ are one message.
Exit chat(const Remote& remote, const ChatOptions& options);

// A model's text as it may be shown: it is not to be trusted with the terminal, so control characters but line ends
// and tabs are left out.
std::string for_terminal(const std::string& text);

}  // namespace weir::app
