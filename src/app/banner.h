// The lines that the server and `weir check` print for a person.
#pragma once

#include <string>
#include <vector>

#include "app/access_control.h"
#include "app/config.h"
#include "bus/catalog.h"

namespace weir::app {

// One line to standard error; with log.format json it is a line of the log, which waits a second at most to be written.
void print_error(const std::string& line);

// One line per model and version: its name, its state, and the reason where it is not ready.
std::string model_table(const bus::Catalog& catalog);

// "6 of 7 models are ready": versions count, as in the table.
std::string ready_models(const bus::Catalog& catalog);

// The addresses that are bound, with their ports.
struct Bound {
  std::vector<std::string> inference;
  std::vector<std::string> admin;  // empty: admin methods are served at the others
};
// Says what others may do without a key where they can reach an address of the configuration. Empty where they cannot,
// where they may ask for health alone, and where they must show a certificate.
std::string what_is_open(const Config& config, const AccessControl& access);
// The text that a server prints when it is ready: addresses, models, a first command, and a warning of what is open.
std::string banner(const Config& config, const Bound& bound, const bus::Catalog& catalog, const AccessControl& access);
// Prints it to standard error. With log.format json the log gets one line of the same, for the stream is JSON alone.
// What is open is a warning in the log in any case.
void greet(const Config& config, const net::Server& server, const bus::Catalog& catalog, const AccessControl& access);

}  // namespace weir::app
