// Peers: a Unix socket between every two processes of a group. It carries file descriptors, and tells when a process has
// died: the kernel closes its end.
//
// The sockets meet at abstract addresses (no file is made) that are exchanged through the store. Groups and their
// sub-groups share one mesh; a message carries a tag, so that threads of several groups may use it at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/comm/socket.h"
#include "distributed/comm/store.h"
#include "kernels/base/error.h"

namespace weft::comm {

class Peers {
 public:
  // Collective. Throws timeout when a rank does not come, unsupported when one runs on another host.
  Peers(Store& store, int rank, int size, std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Sends a file, or, with an empty descriptor, the reason why there is none.
  void send_file(int to, uint64_t tag, int file, ErrorCode code, const std::string& reason);
  // The file of that tag from `from`; throws the sender's reason when there is none, timeout, or peer_lost.
  FileDescriptor receive_file(int from, uint64_t tag, std::chrono::milliseconds timeout);

  // Whether the rank's process has closed its end.
  bool lost(int rank) const;

 private:
  struct Message {
    FileDescriptor file;
    ErrorCode code = ErrorCode::internal;
    std::string reason;
  };
  // Reads whatever has come from the rank into its letterbox; false when the rank has closed its end.
  bool collect(int from);

  int rank_;
  int size_;
  std::vector<FileDescriptor> sockets_;
  std::mutex mutex_;
  std::vector<std::map<uint64_t, Message>> letterboxes_;
};

}  // namespace weft::comm
