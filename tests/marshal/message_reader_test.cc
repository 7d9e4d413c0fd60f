// The reader of messages in JSON, beside the library's: what one takes the other takes, as the same message.
#include "marshal/message_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <gtest/gtest.h>

#include <random>

#include "inference.pb.h"

namespace weir::marshal {
namespace {

namespace pb = google::protobuf;
using pb::FieldDescriptor;

// Every kind of field, alone, repeated, in a oneof and in maps.
class AllKinds {
 public:
  AllKinds() {
    pb::FileDescriptorProto file;
    file.set_name("all.proto"), file.set_package("test"), file.set_syntax("proto3");
    auto& mood = *file.add_enum_type();
    mood.set_name("Mood");
    for (auto [name, number] : {std::pair{"NONE", 0}, {"GOOD", 1}, {"BAD", -2}}) {
      auto& value = *mood.add_value();
      value.set_name(name), value.set_number(number);
    }
    auto& all = *file.add_message_type();
    all.set_name("All");
    all.add_oneof_decl()->set_name("either");
    int number = 0;
    for (int type = 1; type <= FieldDescriptor::MAX_TYPE; ++type)
      if (type != FieldDescriptor::TYPE_GROUP)
        add(all, "either_" + std::to_string(type), ++number, pb::FieldDescriptorProto::Type(type)).set_oneof_index(0);
    for (int type = 1; type <= FieldDescriptor::MAX_TYPE; ++type) {
      if (type == FieldDescriptor::TYPE_GROUP) continue;
      const auto kind = pb::FieldDescriptorProto::Type(type);
      add(all, "one_field_" + std::to_string(type), ++number, kind);
      add(all, "many_" + std::to_string(type), ++number, kind).set_label(pb::FieldDescriptorProto::LABEL_REPEATED);
      add_map(all, "map_" + std::to_string(type), ++number, pb::FieldDescriptorProto::TYPE_STRING, kind);
    }
    for (auto key : {FieldDescriptor::TYPE_INT32, FieldDescriptor::TYPE_UINT64, FieldDescriptor::TYPE_BOOL,
                     FieldDescriptor::TYPE_SINT64, FieldDescriptor::TYPE_FIXED32})
      add_map(all, "keys_" + std::to_string(key), ++number, pb::FieldDescriptorProto::Type(key),
              pb::FieldDescriptorProto::TYPE_INT32);
    pool.BuildFile(file);
  }
  const pb::Descriptor& type() const { return *pool.FindMessageTypeByName("test.All"); }

  pb::DescriptorPool pool;

 private:
  static pb::FieldDescriptorProto& add(pb::DescriptorProto& to, std::string name, int number,
                                       pb::FieldDescriptorProto::Type type) {
    auto& field = *to.add_field();
    field.set_name(std::move(name)), field.set_number(number), field.set_type(type);
    field.set_label(pb::FieldDescriptorProto::LABEL_OPTIONAL);
    if (type == pb::FieldDescriptorProto::TYPE_MESSAGE) field.set_type_name(".test.All");
    if (type == pb::FieldDescriptorProto::TYPE_ENUM) field.set_type_name(".test.Mood");
    return field;
  }
  static void add_map(pb::DescriptorProto& to, const std::string& name, int number, pb::FieldDescriptorProto::Type key,
                      pb::FieldDescriptorProto::Type value) {
    auto& entry = *to.add_nested_type();
    std::string camel;
    for (bool up = true; char c : name) {
      if (c != '_') camel += up ? char(std::toupper(c)) : c;
      up = c == '_';
    }
    entry.set_name(camel + "Entry");
    entry.mutable_options()->set_map_entry(true);
    add(entry, "key", 1, key), add(entry, "value", 2, value);
    auto& field = add(to, name, number, pb::FieldDescriptorProto::TYPE_MESSAGE);
    field.set_label(pb::FieldDescriptorProto::LABEL_REPEATED);
    field.set_type_name(".test.All." + camel + "Entry");
  }
};

// Both readers, and messages to compare what they have read.
class ExchangeListeners {
 public:
  explicit ExchangeListeners(const pb::Descriptor& type)
      : type_(type), resolver_(pb::util::NewTypeResolverForDescriptorPool("t", type.file()->pool())) {}

  // The message in a canonical form; nothing where it is refused.
  std::optional<std::string> ours(std::string_view json) {
    auto read = read_message(type_, json, size_t(1) << 26);
    if (!read) return "foreign";
    return *read ? canonical(**read) : std::nullopt;
  }
  std::optional<std::string> library(std::string_view json) {
    std::string out;
    auto status = pb::util::JsonToBinaryString(resolver_.get(), "t/" + type_.full_name(), std::string(json), &out);
    return status.ok() ? canonical(out) : std::nullopt;
  }

 private:
  std::optional<std::string> canonical(const std::string& binary) {
    std::unique_ptr<pb::Message> message(factory_.GetPrototype(&type_)->New());
    EXPECT_TRUE(message->ParseFromString(binary));
    std::string out;
    pb::io::StringOutputStream stream(&out);
    pb::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message->SerializeToCodedStream(&coded);
    coded.Trim();
    return out;
  }

  const pb::Descriptor& type_;
  pb::DynamicMessageFactory factory_;
  std::unique_ptr<pb::util::TypeResolver> resolver_;
};

// Texts of messages: most are right, some have a value of another kind or out of range somewhere.
class Texts {
 public:
  explicit Texts(uint32_t seed) : random_(seed) {}

  std::string message(const pb::Descriptor& type, int depth = 0) {
    std::string out = "{";
    for (int n = int(below(depth > 2 ? 2 : 6)); n > 0; --n) {
      const FieldDescriptor& f = *type.field(int(below(uint32_t(type.field_count()))));
      if (out.size() > 1) out += pick({",", ", ", " ,\n"});
      out += '"' + (below(2) ? f.name() : f.json_name()) + '"' + pick({":", " : "}) + field(f, depth);
    }
    return out + "}";
  }

 private:
  uint32_t below(uint32_t n) { return uint32_t(random_() % n); }
  std::string pick(std::initializer_list<std::string> from) { return *(from.begin() + below(uint32_t(from.size()))); }

  std::string field(const FieldDescriptor& f, int depth) {
    if (below(40) == 0) return pick({"null", "[]", "{}", "\"x\"", "1", "true", "[1]", "-5", "1.5"});
    std::string out;
    if (f.is_map()) {
      for (int n = int(below(3)); n > 0; --n)
        out += (out.empty() ? "" : ",") + key(*f.message_type()->map_key()) + ":" +
               value(*f.message_type()->map_value(), depth);
      return "{" + out + "}";
    }
    if (!f.is_repeated()) return value(f, depth);
    for (int n = int(below(4)); n > 0; --n) out += (out.empty() ? "" : ",") + value(f, depth);
    return "[" + out + "]";
  }

  std::string key(const FieldDescriptor& f) {
    if (f.type() == FieldDescriptor::TYPE_STRING) return pick({"\"a\"", "\"b\"", "\"\"", "\"\\u00e9\"", "\"a b\""});
    if (f.type() == FieldDescriptor::TYPE_BOOL) return pick({"\"true\"", "\"false\""});
    return pick({"\"1\"", "\"2\"", "\"0\"", "\"-3\"", "\"99999999999\"", "\"x\""});
  }

  std::string value(const FieldDescriptor& f, int depth) {
    if (below(100) == 0) return pick({"\"true\"", "\" 1\"", "\"1.0\"", "\"1e2\"", "\"nan\"", "\"1e400\"", "\"AB\""});
    switch (f.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: return depth > 4 ? "{}" : message(*f.message_type(), depth + 1);
      case FieldDescriptor::CPPTYPE_ENUM: return pick({"\"GOOD\"", "\"BAD\"", "\"NONE\"", "1", "-2", "7", "\"NOPE\""});
      case FieldDescriptor::CPPTYPE_BOOL: return pick({"true", "false", "true", "false", "1", "0"});
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE: return real();
      case FieldDescriptor::CPPTYPE_STRING:
        if (f.type() == FieldDescriptor::TYPE_BYTES)
          return pick({"\"\"", "\"YQ==\"", "\"YQ\"", "\"-_8=\"", "\"+/8=\"", "\"-_8\"", "\"AAECAwQ=\"", "\"@\""});
        return pick({"\"\"", "\"text\"", "\"\\n\\u0041\\ud83d\\ude00\"", "\"é\"", "\"\\/\\\\\\\"\""});
      default: return integer();
    }
  }
  std::string real() {
    switch (below(8)) {
      case 0: return pick({"\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "\"1.5\"", "\"-2e3\""});
      case 1: return pick({"1e39", "1e400", "-1e309", "3.4028235e38", "1e-50", "1e-400", "-0.0"});
      case 2: return std::to_string(int32_t(random_()));
      default: return std::to_string(double(random_()) / 1e6 - 1000);
    }
  }
  std::string integer() {
    switch (below(8)) {
      case 0: return pick({"2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296"});
      case 1:
        return pick({"9223372036854775807", "9223372036854775808", "18446744073709551615", "-9223372036854775808",
                     "18446744073709551616"});
      case 2: return pick({"\"1\"", "\"-1\"", "\"9223372036854775807\"", "\"18446744073709551615\"", "\"x\"", "\"\""});
      case 3: return pick({"1.0", "2e3", "1.5", "-3.0", "1e2", "1e20"});
      default: return std::to_string(int32_t(random_() % 1000) - 300);
    }
  }

  std::mt19937 random_;
};

void compare(const pb::Descriptor& type, uint32_t seeds) {
  ExchangeListeners readers(type);
  uint32_t taken = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::string json = Texts(seed).message(type);
    auto ours = readers.ours(json), library = readers.library(json);
    ASSERT_EQ(ours.has_value(), library.has_value()) << seed << ": " << json;
    ASSERT_EQ(ours, library) << seed << ": " << json;
    taken += ours.has_value();
  }
  EXPECT_GT(taken, seeds / 4) << "texts that are all refused compare nothing";
  EXPECT_LT(taken, seeds);
}

TEST(MessageReader, ReadsEveryKindOfFieldAsTheLibraryDoes) {
  AllKinds all;
  compare(all.type(), 30'000);
}

TEST(MessageReader, ReadsInferRequestsAsTheLibraryDoes) {
  compare(*inference::ModelInferRequest::descriptor(), 20'000);
}

class MessageReaderText : public testing::Test {
 protected:
  base::Result<std::string> read(std::string_view json, size_t max = size_t(1) << 20) {
    return *read_message(*inference::ModelInferRequest::descriptor(), json, max);
  }
  std::string error(std::string_view json) {
    auto result = read(json);
    return result ? "" : result.error().text;
  }
};

TEST_F(MessageReaderText, AnInferRequestHasItsNumbersPacked) {
  auto binary = read(R"({"model_name":"m","inputs":[{"name":"x","datatype":"FP32","shape":["2",1],)"
                     R"("contents":{"fp32Contents":[1.5,-2]}}],"parameters":{"k":{"int64_param":"7"}}})");
  ASSERT_TRUE(binary) << binary.error().text;
  inference::ModelInferRequest request;
  ASSERT_TRUE(request.ParseFromString(*binary));
  EXPECT_EQ(request.model_name(), "m");
  EXPECT_EQ(request.inputs(0).shape(0), 2);
  EXPECT_EQ(request.inputs(0).contents().fp32_contents(1), -2);
  EXPECT_EQ(request.parameters().at("k").int64_param(), 7);
  EXPECT_NE(binary->find(std::string("\x32\x08\0\0\xc0\x3f\0\0\0\xc0", 10)), std::string::npos);
}

TEST_F(MessageReaderText, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(error(R"({"nope":1})"), "JSON: inference.ModelInferRequest has no field 'nope' at byte 8");
  EXPECT_EQ(error(R"({"model_name":7})"), "JSON: expected a value of string for 'model_name' at byte 14");
  EXPECT_EQ(error(R"({"inputs":[7]})"), "JSON: expected a value of message for 'inputs' at byte 11, in inputs[0]");
  EXPECT_EQ(error(R"({"inputs":[{},{"shape":[1,"x"]}]})"),
            "JSON: expected a value of int64 for 'shape' at byte 29, in inputs[1].shape[1]");
  EXPECT_EQ(error(R"({"inputs":[{},null]})"), "JSON: null is no element of 'inputs' at byte 14, in inputs[1]");
  EXPECT_EQ(error(R"({"parameters":{"a":{"boolParam":true},"b":{"int64Param":0.5}}})"),
            "JSON: expected a value of int64 for 'int64_param' at byte 59, in parameters['b'].int64_param");
  EXPECT_NE(error(R"({"parameters":{"a":{},"a":{}}})").find("a second value for the key"), std::string::npos);
  EXPECT_NE(error(R"({"parameters":{"a":{"bool_param":true,"string_param":""}}})").find("parameter_choice"),
            std::string::npos);
  EXPECT_NE(error(R"({"raw_input_contents":["?"]})").find("not base64"), std::string::npos);
  EXPECT_NE(error("{} {}").find("follows the document"), std::string::npos);
  EXPECT_NE(error("[]").find("expected an object"), std::string::npos);
  const std::string text = error("{\"" + std::string(1000, 'x') + "\":1}");
  EXPECT_NE(text.find("'" + std::string(64, 'x')), std::string::npos);
  EXPECT_EQ(text.find(std::string(65, 'x')), std::string::npos);
}

TEST_F(MessageReaderText, TakesNothingThatIsNotJson) {
  for (auto text : {"{model_name:\"m\"}", "{'model_name':'m'}", "{\"id\":\"a\",}", "{\"raw_input_contents\":[\"\",]}"})
    EXPECT_FALSE(read(text)) << text;
}

TEST_F(MessageReaderText, AMessageOfExactlyTheLimitFitsAndOneByteMoreDoesNot) {
  std::string json = "{\"id\":\"" + std::string(100, 'x') + "\"}";
  EXPECT_TRUE(read(json, 102));
  EXPECT_EQ(read(json, 101).error().code, base::Code::kResourceExhausted);
  std::string numbers = "{\"inputs\":[{\"contents\":{\"fp64_contents\":[0";
  for (int i = 0; i < 999; ++i) numbers += ",0";
  EXPECT_EQ(read(numbers + "]}}]}", 7999).error().code, base::Code::kResourceExhausted);
  EXPECT_TRUE(read(numbers + "]}}]}", 8100));
}

TEST_F(MessageReaderText, NestingAndKeysHaveABound) {
  AllKinds all;
  auto nested = [&](int levels) {
    std::string text;
    for (int i = 1; i < levels; ++i) text += "{\"one_field_11\":";
    return *read_message(all.type(), text + "{}" + std::string(size_t(levels - 1), '}'), 1 << 20);
  };
  EXPECT_TRUE(nested(kMaxMessageDepth));
  EXPECT_EQ(nested(kMaxMessageDepth + 1).error().code, base::Code::kInvalidArgument);
  auto keys = [&](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":{}";
    return read("{\"parameters\":{" + text + "}}", size_t(1) << 24);
  };
  EXPECT_TRUE(keys(1 << 16));
  EXPECT_NE(keys((1 << 16) + 1).error().text.find("more than 65536 keys"), std::string::npos);
}

TEST_F(MessageReaderText, FieldsWithAJsonFormOfTheirOwnAreTheLibrarys) {
  EXPECT_FALSE(read_message(*pb::FileOptions::descriptor(), "{}", 100));
}

TEST_F(MessageReaderText, ListsAndMapsAreLevelsOfNesting) {
  AllKinds all;
  auto read_all = [&](const std::string& text) { return read_message(all.type(), text, 1 << 20)->has_value(); };
  auto nested = [](int messages, const std::string& inner) {  // each in a list: two levels
    std::string text;
    for (int i = 0; i < messages; ++i) text += "{\"many_11\":[";
    text += inner;
    for (int i = 0; i < messages; ++i) text += "]}";
    return text;
  };
  ASSERT_EQ(kMaxMessageDepth, 64);
  EXPECT_TRUE(read_all(nested(31, "{}")));
  EXPECT_TRUE(read_all(nested(31, "{\"many_5\":[1]}"))) << "64 levels";
  EXPECT_TRUE(read_all(nested(31, "{\"map_5\":{\"a\":1}}")));
  EXPECT_TRUE(read_all(nested(31, "{\"one_field_11\":{}}")));
  EXPECT_FALSE(read_all(nested(31, "{\"many_11\":[{}]}")));
  EXPECT_FALSE(read_all(nested(31, "{\"map_11\":{\"a\":{}}}")));
  EXPECT_FALSE(read_all(nested(31, "{\"one_field_11\":{\"many_5\":[1]}}")));
  EXPECT_FALSE(read_all(nested(31, "{\"one_field_11\":{\"map_5\":{\"a\":1}}}")));
  std::string siblings = "{\"many_11\":[{}";
  for (int i = 0; i < 200; ++i) siblings += ",{\"map_5\":{\"a\":1},\"many_5\":[1]}";
  EXPECT_TRUE(read_all(siblings + "]}")) << "beside each other is not inside";
}

TEST_F(MessageReaderText, EdgesOfValuesAreTheLibrarys) {
  AllKinds all;
  ExchangeListeners readers(all.type());
  for (const char* value :
       {"2147483647", "2147483648", "-2147483648", "-2147483649", "\"9.5\"", "\"8.5\"",  "\"-0.5\"",   "\"true\"",
        "\"false\"",  "\"YR==\"",   "\"YQ\"",      "\"YWJ\"",     "\"YWI\"", "\"YWJj\"", "\"YWJjZA\"", "\"YWJjZA==\"",
        "\"YWJjZR\"", "\"Y\"",      "\"====\"",    "0",           "1",       "\"GOOD\""})
    for (int type = 1; type <= FieldDescriptor::MAX_TYPE; ++type) {
      if (type == FieldDescriptor::TYPE_GROUP || type == FieldDescriptor::TYPE_MESSAGE) continue;
      const std::string json = "{\"one_field_" + std::to_string(type) + "\":" + value + "}";
      if (std::string_view(value).starts_with("\"Y") && type != FieldDescriptor::TYPE_BYTES) continue;
      EXPECT_EQ(readers.ours(json), readers.library(json)) << json;
    }
  // The library takes other words for true and false, too.
  for (const char* word : {"yes", "True", "1", ""}) {
    EXPECT_FALSE(readers.ours(std::string("{\"keys_8\":{\"") + word + "\":5}}")) << word;
    EXPECT_FALSE(readers.ours(std::string("{\"one_field_8\":\"") + word + "\"}")) << word;
  }
  for (const char* json : {R"({"keys_8":{"true":5}})", R"({"keys_8":{"false":5}})"})
    EXPECT_EQ(readers.ours(json), readers.library(json)) << json;
}

// Fields of google.protobuf's own types, for which null is a value, and more oneofs than are told apart.
TEST(MessageReader, WhatTheLibraryHasToReadIsLeftToIt) {
  pb::Value::descriptor();
  pb::DescriptorPool pool(pb::DescriptorPool::generated_pool());
  pb::FileDescriptorProto file;
  file.set_name("holder.proto"), file.set_package("test"), file.set_syntax("proto3");
  file.add_dependency("google/protobuf/struct.proto");
  auto& holder = *file.add_message_type();
  holder.set_name("Holder");
  auto add = [](pb::DescriptorProto & to, const std::string& name, int number, const std::string& type) -> auto& {
    auto& field = *to.add_field();
    field.set_name(name), field.set_number(number), field.set_label(pb::FieldDescriptorProto::LABEL_OPTIONAL);
    field.set_type(type.empty()                  ? pb::FieldDescriptorProto::TYPE_INT32
                   : type.ends_with("NullValue") ? pb::FieldDescriptorProto::TYPE_ENUM
                                                 : pb::FieldDescriptorProto::TYPE_MESSAGE);
    if (!type.empty()) field.set_type_name(type);
    return field;
  };
  add(holder, "value", 1, ".google.protobuf.Value");
  add(holder, "nothing", 2, ".google.protobuf.NullValue");
  add(holder, "values", 3, ".google.protobuf.Value").set_label(pb::FieldDescriptorProto::LABEL_REPEATED);
  add(holder, "plain", 4, "");
  auto& wide = *file.add_message_type();
  wide.set_name("Wide");
  for (int i = 0; i < 66; ++i) {
    wide.add_oneof_decl()->set_name("o" + std::to_string(i));
    for (int k = 0; k < 2; ++k)
      add(wide, "f" + std::to_string(i) + (k ? "b" : "a"), 2 * i + k + 1, "").set_oneof_index(i);
  }
  ASSERT_TRUE(pool.BuildFile(file));
  auto read = [&](const char* type, std::string_view json) -> std::string {
    auto result = read_message(*pool.FindMessageTypeByName(type), json, 1000);
    return !result ? "foreign" : result->has_value() ? "read" : "refused";
  };
  for (auto json : {R"({"value":null})", R"({"value":1})", R"({"nothing":null})", R"({"nothing":"NULL_VALUE"})",
                    R"({"nothing":0})", R"({"values":[null]})", R"({"values":[1]})", R"({"values":null})"})
    EXPECT_EQ(read("test.Holder", json), "foreign") << json;
  EXPECT_EQ(read("test.Holder", R"({"plain":null})"), "read");
  EXPECT_EQ(read("test.Holder", R"({"plain":"x"})"), "refused");
  EXPECT_EQ(read("test.Wide", R"({"f0a":1,"f63a":1,"f62b":1})"), "read");
  EXPECT_EQ(read("test.Wide", R"({"f63a":1,"f63b":1})"), "refused");
  EXPECT_EQ(read("test.Wide", R"({"f0a":1,"f0b":1})"), "refused");
  EXPECT_EQ(read("test.Wide", R"({"f64a":1})"), "foreign");
  EXPECT_EQ(read("test.Wide", R"({"f65a":1})"), "foreign");
}

}  // namespace
}  // namespace weir::marshal
