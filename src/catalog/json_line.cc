#include "catalog/json_line.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/escape.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace cairn {

namespace {

using Json = nlohmann::json;

constexpr uint64_t kInt64Max = std::numeric_limits<int64_t>::max();

// `unit` over and over between `open` and `close`.
bool IsRepeated(std::string_view shape, char open, std::string_view unit,
                char close) {
  if (shape.size() < 2 || shape.front() != open || shape.back() != close) {
    return false;
  }
  shape = shape.substr(1, shape.size() - 2);
  if (shape.size() % unit.size() != 0) return false;
  for (size_t at = 0; at < shape.size(); at += unit.size()) {
    if (shape.substr(at, unit.size()) != unit) return false;
  }
  return true;
}

}  // namespace

// Depth 1 is inside the line's object. False stops the parser; `fault` says
// why.
class JsonLine::Handler : public nlohmann::json_sax<Json> {
 public:
  explicit Handler(JsonLine* line) : line_(line) {}
  std::string fault;

  bool null() override { return Scalar(Type::kNull, 'x'); }
  bool boolean(bool flag) override {
    if (Value* const value = Target()) value->flag = flag;
    return Scalar(Type::kBool, 'x');
  }
  bool number_integer(number_integer_t number) override {
    if (Value* const value = Target()) value->integer = number;
    return Scalar(Type::kInteger, 'x');
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > kInt64Max) return Scalar(Type::kReal, 'x');
    Value* const value = Target();
    if (value != nullptr && depth_ == 1) {
      value->integer = static_cast<int64_t>(number);
    } else if (value != nullptr) {
      value->unsigneds.push_back(number);
    }
    return Scalar(Type::kInteger, 'u');
  }
  bool number_float(number_float_t /*number*/,
                    const string_t& /*text*/) override {
    return Scalar(Type::kReal, 'x');
  }
  bool string(string_t& text) override {
    Value* const value = Target();
    if (value != nullptr && depth_ == 1) {
      value->text.swap(text);
    } else if (value != nullptr) {
      value->texts.push_back(std::move(text));
    }
    return Scalar(Type::kText, 't');
  }
  bool binary(binary_t& /*bytes*/) override { return false; }
  bool start_object(size_t /*count*/) override { return Open('{'); }
  bool end_object() override { return Close('}'); }
  bool start_array(size_t /*count*/) override { return Open('['); }
  bool end_array() override { return Close(']'); }

  bool key(string_t& name) override {
    if (depth_ > 1) {
      if (Value* const value = Target()) {
        value->shape += 'k';
        value->texts.push_back(std::move(name));
      }
      return true;
    }
    const auto& keys = line_->known_keys_;
    const auto found = std::find(keys.begin(), keys.end(), name);
    current_ = std::nullopt;
    if (found == keys.end()) return true;
    current_ = found - keys.begin();
    if (Target()->type == Type::kAbsent) return true;
    fault = fmt::format("the key \"{}\" is there twice", name);
    return false;
  }

  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const Json::exception& /*error*/) override {
    fault = fmt::format("not well-formed JSON at byte {}", position);
    return false;
  }

 private:
  Value* Target() {
    return current_.has_value() ? &line_->values_[*current_] : nullptr;
  }

  bool Scalar(Type type, char letter) {
    if (depth_ == 0) return NotAnObject();
    Value* const value = Target();
    if (value == nullptr) return true;
    if (depth_ == 1) {
      value->type = type;
    } else {
      value->shape += letter;
    }
    return true;
  }

  bool Open(char bracket) {
    if (depth_ == 0 && bracket != '{') return NotAnObject();
    if (depth_++ == 0) return true;
    if (Value* const value = Target()) {
      value->type = Type::kNested;
      value->shape += bracket;
    }
    return true;
  }

  bool Close(char bracket) {
    if (--depth_ == 0) return true;
    if (Value* const value = Target()) value->shape += bracket;
    return true;
  }

  bool NotAnObject() {
    fault = "not a JSON object";
    return false;
  }

  JsonLine* const line_;
  uint64_t depth_ = 0;
  std::optional<size_t> current_;  // The key at depth 1, if it is a known one.
};

JsonLine::JsonLine(std::span<const std::string_view> known_keys)
    : known_keys_(known_keys), values_(known_keys.size()) {}

absl::Status JsonLine::Parse(std::string_view line) {
  for (Value& value : values_) {
    value.type = Type::kAbsent;
    value.shape.clear();
    value.texts.clear();
    value.unsigneds.clear();
  }
  Handler handler(this);
  if (Json::sax_parse(line.data(), line.data() + line.size(), &handler)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(handler.fault);
}

absl::Status JsonLine::Fault(size_t key, std::string_view what) const {
  return absl::DataLossError(fmt::format("\"{}\" {}", known_keys_[key], what));
}

absl::Status JsonLine::Require(size_t key, Type type, const char* what) const {
  if (values_[key].type == type) return absl::OkStatus();
  if (!Has(key)) return Fault(key, "is missing");
  return Fault(key, fmt::format("is not {}", what));
}

absl::StatusOr<std::string_view> JsonLine::Text(size_t key) const {
  CAIRN_RETURN_IF_ERROR(Require(key, Type::kText, "a string"));
  return std::string_view(values_[key].text);
}

absl::StatusOr<std::string> JsonLine::Name(size_t key) const {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view text, Text(key));
  absl::StatusOr<std::string> name = UnescapeName(text);
  if (!name.ok()) return Fault(key, "is not in the escaped form of names");
  return name;
}

absl::StatusOr<int64_t> JsonLine::Integer(size_t key) const {
  CAIRN_RETURN_IF_ERROR(
      Require(key, Type::kInteger, "a whole number below 2^63"));
  return values_[key].integer;
}

absl::StatusOr<uint64_t> JsonLine::Unsigned(size_t key, uint64_t max) const {
  CAIRN_ASSIGN_OR_RETURN(const int64_t number, Integer(key));
  if (number < 0 || static_cast<uint64_t>(number) > max) {
    return Fault(key, fmt::format("is {}, not from 0 to {}", number, max));
  }
  return static_cast<uint64_t>(number);
}

absl::StatusOr<bool> JsonLine::Bool(size_t key) const {
  CAIRN_RETURN_IF_ERROR(Require(key, Type::kBool, "true or false"));
  return values_[key].flag;
}

absl::StatusOr<std::span<const uint64_t>> JsonLine::Unsigneds(
    size_t key) const {
  constexpr char kWhat[] = "a list of whole numbers from 0 to 2^63-1";
  CAIRN_RETURN_IF_ERROR(Require(key, Type::kNested, kWhat));
  const Value& value = values_[key];
  if (!IsRepeated(value.shape, '[', "u", ']')) {
    return Fault(key, fmt::format("is not {}", kWhat));
  }
  return std::span<const uint64_t>(value.unsigneds);
}

absl::StatusOr<std::span<const std::string>> JsonLine::TextObject(
    size_t key) const {
  constexpr char kWhat[] = "an object of strings";
  CAIRN_RETURN_IF_ERROR(Require(key, Type::kNested, kWhat));
  const Value& value = values_[key];
  if (!IsRepeated(value.shape, '{', "kt", '}')) {
    return Fault(key, fmt::format("is not {}", kWhat));
  }
  return std::span<const std::string>(value.texts);
}

absl::StatusOr<std::span<const std::string>> JsonLine::TextPairs(
    size_t key) const {
  constexpr char kWhat[] = "a list of pairs of strings";
  CAIRN_RETURN_IF_ERROR(Require(key, Type::kNested, kWhat));
  const Value& value = values_[key];
  if (!IsRepeated(value.shape, '[', "[tt]", ']')) {
    return Fault(key, fmt::format("is not {}", kWhat));
  }
  return std::span<const std::string>(value.texts);
}

}  // namespace cairn
