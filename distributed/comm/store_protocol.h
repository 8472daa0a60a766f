// The wire format between TcpStore and StoreServer. All integers are little-endian.
//
//   client → server  hello "WEFTSTC1"                       the two differ, so that a socket connected to itself
//   server → client  hello "WEFTSTS1"                       (Linux can do that on loopback) is not taken for a server
//   then, one at a time:
//   client → server  u32 length of the rest | u8 operation | fields
//   server → client  u32 length of the rest | u8 status    | result
//
//   operation   fields                              result when the status is ok
//   1 set       text key, text value                –
//   2 get       u64 timeout_ms, text key            text value
//   3 add       text key, i64 amount                i64 sum
//   4 wait      u64 timeout_ms, u32 n, n × text key –
//   5 check     u32 n, n × text key                 u8 1 when all are set, else 0
//   6 delete    text key                            u8 1 when it was there, else 0
//   text        u32 length | bytes
//   status      0 ok;  1 timeout: text key, the one that is missing;  2 refused: text, what rule was broken
//
// get and wait are answered when the keys are there or the timeout has passed; the server keeps the time. A frame is at most
// max_frame_bytes long. The server closes a connection whose bytes do not follow this format, that does not say hello within
// StoreServer::Options::hello_timeout, or that stops in the middle of a frame for that long. It never reserves memory by what
// a length says, only as bytes arrive. There is no authentication: a store trusts its network, hence the loopback default.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "distributed/comm/store.h"

namespace weft::store_protocol {

inline constexpr std::string_view client_hello = "WEFTSTC1";
inline constexpr std::string_view server_hello = "WEFTSTS1";
inline constexpr std::size_t header_bytes = 4;
inline constexpr std::size_t max_frame_bytes = Store::max_value_bytes + Store::max_key_bytes + 64;

enum class Operation : std::uint8_t { set = 1, get = 2, add = 3, wait = 4, check = 5, erase = 6 };
enum class Status : std::uint8_t { ok = 0, timeout = 1, refused = 2 };

// Builds one frame; take() closes it by writing its length.
class Writer {
 public:
  explicit Writer(std::uint8_t first) {
    frame_.assign(header_bytes, '\0');
    frame_.push_back(static_cast<char>(first));
  }
  explicit Writer(Operation operation) : Writer(static_cast<std::uint8_t>(operation)) {}
  explicit Writer(Status status) : Writer(static_cast<std::uint8_t>(status)) {}

  Writer& u8(std::uint8_t value) { return integer(value); }
  Writer& u32(std::uint32_t value) { return integer(value); }
  Writer& u64(std::uint64_t value) { return integer(value); }
  Writer& text(std::string_view value) {
    u32(static_cast<std::uint32_t>(value.size()));
    frame_.append(value);
    return *this;
  }
  std::size_t payload_bytes() const { return frame_.size() - header_bytes; }
  std::string take() {
    for (std::size_t i = 0; i < header_bytes; ++i) frame_[i] = static_cast<char>(payload_bytes() >> (8 * i));
    return std::move(frame_);
  }

 private:
  template <class T>
  Writer& integer(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      frame_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
    return *this;
  }
  std::string frame_;
};

// Takes a frame's payload apart. Reading past the end yields zeros and makes valid() false for good: read all, then ask.
class Reader {
 public:
  explicit Reader(std::string_view payload) : rest_(payload) {}
  std::uint8_t u8() { return integer<std::uint8_t>(); }
  std::uint32_t u32() { return integer<std::uint32_t>(); }
  std::uint64_t u64() { return integer<std::uint64_t>(); }
  std::string_view text() {
    std::uint32_t length = u32();
    if (length > rest_.size()) valid_ = false;
    if (!valid_) return {};
    std::string_view value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }
  bool valid() const { return valid_; }
  bool complete() const { return valid_ && rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

 private:
  template <class T>
  T integer() {
    if (rest_.size() < sizeof(T)) valid_ = false;
    if (!valid_) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  std::string_view rest_;
  bool valid_ = true;
};

// The length a frame's header announces; `bytes` holds at least header_bytes.
inline std::size_t announced_length(std::string_view bytes) { return Reader(bytes.substr(0, header_bytes)).u32(); }

}  // namespace weft::store_protocol
