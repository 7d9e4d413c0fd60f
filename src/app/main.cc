#include <google/protobuf/stubs/logging.h>

#include <cstdlib>

#include "app/cli.h"
#include "net/dormant_ssl.h"

int main(int argc, char** argv) {
  // Microsoft's builds of ONNX Runtime start threads that report to their servers before their API can forbid it; they
  // look at this variable first. setenv() is not safe beside other threads, so it is called before there are any.
  ::setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  // A client's mistake is answered to the client; libprotobuf would also print it to standard error.
  google::protobuf::SetLogHandler(nullptr);
  (void)weir::net::use_memory_for_ssl();  // before anything calls OpenSSL
  return weir::app::run(argc, argv);
}
