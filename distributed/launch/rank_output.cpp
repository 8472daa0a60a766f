#include "distributed/launch/rank_output.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "kernels/base/error.h"

namespace weft {

void OutputQueue::push(std::string_view text) {
  if (!broken_) text_ += text;
}

void OutputQueue::write_some() {
  std::string_view rest = std::string_view(text_).substr(start_);
  std::string_view piece = rest.substr(0, PIPE_BUF);
  if (piece.size() < rest.size()) {
    std::size_t newline = piece.rfind('\n');
    if (newline != std::string_view::npos) piece = piece.substr(0, newline + 1);
  }
  ssize_t count = write(descriptor_, piece.data(), piece.size());
  if (count < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) discard();
    return;
  }
  start_ += static_cast<std::size_t>(count);
  if (start_ == text_.size() || start_ > max_bytes) {
    text_.erase(0, start_);
    start_ = 0;
  }
}

void OutputQueue::discard() {
  broken_ = true;
  text_.clear();
  start_ = 0;
}

void Tail::push(std::string_view line) {
  lines_.emplace_back(line.substr(0, max_line_bytes));
  if (lines_.size() > max_lines) lines_.pop_front();
}

Tail Tail::of_file(const std::string& path) {
  Tail tail;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  std::streamoff start = std::max<std::streamoff>(0, size - static_cast<std::streamoff>(max_lines * max_line_bytes));
  file.seekg(start);
  std::string line;
  if (start > 0) std::getline(file, line);  // the first one is cut
  while (std::getline(file, line)) tail.push(line);
  return tail;
}

RankPipe::RankPipe(std::string prefix, OutputQueue* queue, Tail* tail)
    : prefix_(std::move(prefix)), queue_(queue), tail_(tail) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::io, "launch", "cannot make a pipe: {}", error_text(errno));
  read_end_ = FileDescriptor(ends[0]);
  write_end_ = FileDescriptor(ends[1]);
  // Only our end: the rank expects an ordinary blocking descriptor.
  fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);
}

bool RankPipe::read_some() {
  char buffer[16384];
  ssize_t count = read(read_end_.get(), buffer, sizeof buffer);
  if (count < 0 && errno == EINTR) return true;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (count <= 0) {
    if (!partial_.empty()) emit(std::exchange(partial_, {}));
    read_end_.reset();
    return false;
  }
  std::string_view rest(buffer, static_cast<std::size_t>(count));
  for (std::size_t newline; (newline = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(newline + 1)) {
    partial_ += rest.substr(0, newline);
    emit(partial_);
    partial_.clear();
  }
  partial_ += rest;
  if (partial_.size() >= max_line_bytes) emit(std::exchange(partial_, {}));
  return true;
}

void RankPipe::finish() {
  // A pipe holds 64 KiB unless somebody enlarged it (to 1 MiB at most without privileges); what comes later is not the rank's.
  for (int i = 0; i < 64 && open() && read_some(); ++i) {
  }
  if (!partial_.empty()) emit(std::exchange(partial_, {}));
  read_end_.reset();
}

void RankPipe::emit(std::string_view line) {
  std::string text;
  text.reserve(prefix_.size() + line.size() + 1);
  text += prefix_;
  text += line;
  text += '\n';
  queue_->push(text);
  tail_->push(line);
}

}  // namespace weft
