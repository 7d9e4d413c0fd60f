// The framing of a streamed HTTP answer.
#pragma once

#include "dialects/grps/house.h"
#include "wire/exchange.h"

namespace weir::grps {

// Sends the head when the first part comes; parts as the configuration says. A bin_data part goes out as it is where
// parts are concatenated, else in JSON.
class PartWriter {
 public:
  PartWriter(const House& house, wire::Exchange& exchange) : house_(house), exchange_(exchange) {}

  // `content_type`: of the head, where the configuration of a route has its own; "" = the dialect's.
  void open(std::string_view content_type = {});
  void part(const base::Status& status, const Message& message);
  // A part that has its form already.
  void raw(base::Bytes bytes) { exchange_.body(std::move(bytes)); }
  // The last part is the failure, if it is one.
  void end(const base::Status& status);

 private:
  const House& house_;
  wire::Exchange& exchange_;
};

}  // namespace weir::grps
