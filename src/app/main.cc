#include <google/protobuf/stubs/logging.h>

#include "app/cli.h"

int main(int argc, char** argv) {
  // What a client gets wrong is answered to the client; libprotobuf would also print it to standard error.
  google::protobuf::SetLogHandler(nullptr);
  return weir::app::run(argc, argv);
}
