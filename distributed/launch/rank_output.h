// What ranks print, on its way to the terminal: whole lines, each marked with its rank, none lost or mixed with another.
//
// A RankPipe takes one stream of one rank apart into lines and hands them to an OutputQueue, which writes them when the
// reader is ready for them. Neither ever blocks: a launcher that waits for a slow terminal would not see a rank die.
#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "distributed/comm/socket.h"

namespace weft {

// Lines for one descriptor of this process, usually 1 or 2.
class OutputQueue {
 public:
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  void push(std::string_view text);  // one or more whole lines, each with its newline
  // Writes a piece of at most PIPE_BUF bytes, ending with a line where one ends in it: the kernel keeps such a piece together
  // in a pipe. Call it when poll says that the descriptor takes data.
  void write_some();
  void discard();  // forgets everything, now and later

  int descriptor() const { return descriptor_; }
  bool empty() const { return start_ == text_.size(); }
  bool full() const { return text_.size() - start_ > max_bytes; }  // then ranks are not read, and block when they print

 private:
  static constexpr std::size_t max_bytes = std::size_t{1} << 20;
  int descriptor_;
  bool broken_ = false;  // the reader has gone
  std::string text_;
  std::size_t start_ = 0;  // text_ before it has been written
};

// The last lines a rank has printed.
class Tail {
 public:
  void push(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }
  // The last lines of a log file; empty when it cannot be read.
  static Tail of_file(const std::string& path);

 private:
  static constexpr std::size_t max_lines = 20;
  static constexpr std::size_t max_line_bytes = 2000;
  std::deque<std::string> lines_;
};

class RankPipe {
 public:
  // `prefix` comes before every line; `queue` and `tail` live longer than this. The pipe's write end is write_end() until
  // close_write_end(), to be called once the rank has it.
  RankPipe(std::string prefix, OutputQueue* queue, Tail* tail);

  int read_end() const { return read_end_.get(); }
  int write_end() const { return write_end_.get(); }
  void close_write_end() { write_end_.reset(); }
  bool open() const { return static_cast<bool>(read_end_); }
  bool wants_data() const { return open() && !queue_->full(); }

  // Reads once; at the end of the stream hands on what has no newline and closes. False when nothing was there now.
  bool read_some();
  // Reads what is there now and closes, for a rank that has ended while a process it left behind still holds the pipe.
  void finish();

 private:
  static constexpr std::size_t max_line_bytes = std::size_t{64} << 10;  // a longer line is broken
  void emit(std::string_view line);

  std::string prefix_;
  OutputQueue* queue_;
  Tail* tail_;
  FileDescriptor read_end_;
  FileDescriptor write_end_;
  std::string partial_;  // the beginning of a line
};

}  // namespace weft
