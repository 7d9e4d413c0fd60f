// Spans as a collector reads them, out of OTLP's protobuf.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/encoding.h"
#include "marshal/json_cursor.h"
#include "marshal/pb_wire.h"

namespace weir::ops {

using marshal::PbReader;
using marshal::PbType;

// A span as a collector reads it.
struct Read {
  std::string trace, id, parent, state, name, message;
  uint64_t kind = 0, start = 0, end = 0, status = 0, flags = 0;
  std::map<std::string, std::string> attributes;  // numbers in decimal
  std::string linked;
};

inline std::string value_text(std::string_view any) {
  PbReader value(any);
  EXPECT_TRUE(value.next());
  switch (value.field()) {
    case 1: EXPECT_TRUE(marshal::valid_utf8(value.bytes())); return std::string(value.bytes());
    case 2: return value.number() ? "true" : "false";
    case 3: return std::to_string(int64_t(value.number()));
    case 4: return std::to_string(std::bit_cast<double>(value.number()));
    case 5: {
      PbReader array(value.bytes());
      EXPECT_TRUE(array.next());
      return "[" + value_text(array.bytes()) + "]";
    }
    default: return "?";
  }
}

inline std::pair<std::string, std::string> key_value(std::string_view message) {
  std::pair<std::string, std::string> out;
  PbReader r(message);
  while (r.next()) r.field() == 1 ? void(out.first = r.bytes()) : void(out.second = value_text(r.bytes()));
  EXPECT_TRUE(r.ok());
  return out;
}

inline Read read_span(std::string_view message) {
  Read out;
  PbReader r(message);
  while (r.next()) switch (r.field()) {
      case 1: out.trace = base::hex(r.bytes()); break;
      case 2: out.id = base::hex(r.bytes()); break;
      case 3: out.state = r.bytes(); break;
      case 4: out.parent = base::hex(r.bytes()); break;
      case 5: out.name = r.bytes(); break;
      case 6: out.kind = r.number(); break;
      case 7: out.start = r.number(); break;
      case 8: out.end = r.number(); break;
      case 9: out.attributes.insert(key_value(r.bytes())); break;
      case 13: {
        PbReader link(r.bytes());
        while (link.next())
          if (link.is(1, PbType::kBytes)) out.linked = base::hex(link.bytes());
        break;
      }
      case 15: {
        PbReader status(r.bytes());
        while (status.next())
          status.field() == 2 ? void(out.message = status.bytes()) : void(out.status = status.number());
        break;
      }
      case 16: out.flags = r.number(); break;
      default: ADD_FAILURE() << "field " << r.field();
    }
  EXPECT_TRUE(r.ok());
  return out;
}

}  // namespace weir::ops
