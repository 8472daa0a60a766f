// Point-to-point transfers of DirectBackend: pieces through a mailbox for each ordered pair of ranks. A message of up to two pieces
// is complete for the sender at once; ranks of one address space copy longer ones straight from the sender's buffer.
#include <algorithm>
#include <cstring>

#include "distributed/comm/backends/direct/direct.h"

namespace weft::comm {

PieceHeader& DirectBackend::piece(int from, int to, uint64_t index) const {
  const int64_t stride = ControlLayout::aligned(sizeof(PieceHeader)) + layout_.piece_bytes;
  return *reinterpret_cast<PieceHeader*>(memory_ + layout_.mailbox_offset(from, to) +
                                         static_cast<int64_t>(sizeof(MailboxControl)) +
                                         static_cast<int64_t>(index & 1) * stride);
}

std::byte* DirectBackend::piece_data(int from, int to, uint64_t index) const {
  return reinterpret_cast<std::byte*>(&piece(from, to, index)) + ControlLayout::aligned(sizeof(PieceHeader));
}

bool DirectBackend::progress(Transfer& transfer) {
  const Operation& operation = *transfer.operation;
  throw_if_aborted(operation);
  if (!transfer.started) {
    transfer.started = true;
    control(rank()).last.store(Announcement(operation));
  }
  return operation.kind == OpKind::send ? progress_send(transfer) : progress_recv(transfer);
}

bool DirectBackend::progress_send(Transfer& transfer) {
  const Operation& operation = *transfer.operation;
  const int to = operation.peer;
  MailboxControl& box = mailbox(rank(), to);
  if (transfer.ticket != 0) return box.received.load() >= transfer.ticket;
  const int64_t bytes = operation.bytes();
  while (true) {
    const uint64_t index = box.sent.load(std::memory_order_relaxed);
    if (index - box.received.load() >= 2) return false;
    PieceHeader& header = piece(rank(), to, index);
    header = {.count = operation.count, .dtype = operation.dtype, .sequence = operation.sequence};
    if (one_address_space() && bytes > layout_.piece_bytes) {
      header.direct = reinterpret_cast<uint64_t>(operation.input);
      transfer.ticket = index + 1;  // done once the receiver has taken it
    } else {
      const int64_t length = std::min(layout_.piece_bytes, bytes - transfer.offset);
      if (length > 0)
        std::memcpy(piece_data(rank(), to, index), static_cast<const std::byte*>(operation.input) + transfer.offset,
                    static_cast<size_t>(length));
      transfer.offset += length;
    }
    box.sent.store(index + 1);
    ring(to);
    if (transfer.ticket != 0) return box.received.load() >= transfer.ticket;
    if (transfer.offset == bytes) return true;
  }
}

bool DirectBackend::progress_recv(Transfer& transfer) {
  const Operation& operation = *transfer.operation;
  const int from = operation.peer;
  MailboxControl& box = mailbox(from, rank());
  const int64_t bytes = operation.bytes();
  while (true) {
    const uint64_t index = box.received.load(std::memory_order_relaxed);
    if (box.sent.load() == index) return false;
    const PieceHeader header = piece(from, rank(), index);
    if (header.count != operation.count || header.dtype != operation.dtype) {
      give_up(operation, ErrorCode::mismatch,
              fmt::format("rank {} expects {}[{}], rank {} sends {}[{}] (its send #{})", rank(), name(operation.dtype),
                          operation.count, from, name(header.dtype), header.count, header.sequence));
    }
    const int64_t length = header.direct ? bytes : std::min(layout_.piece_bytes, bytes - transfer.offset);
    const void* source = header.direct ? reinterpret_cast<const void*>(header.direct) : piece_data(from, rank(), index);
    if (length > 0)
      std::memcpy(static_cast<std::byte*>(operation.output) + transfer.offset, source, static_cast<size_t>(length));
    transfer.offset += length;
    box.received.store(index + 1);
    ring(from);
    if (transfer.offset == bytes) return true;
  }
}

bool DirectBackend::may_progress(const Transfer& transfer) const {
  const Operation& operation = *transfer.operation;
  if (operation.kind == OpKind::recv) {
    const MailboxControl& box = mailbox(operation.peer, rank());
    return box.sent.load() != box.received.load(std::memory_order_relaxed);
  }
  const MailboxControl& box = mailbox(rank(), operation.peer);
  const uint64_t received = box.received.load();
  return transfer.ticket != 0 ? received >= transfer.ticket : box.sent.load(std::memory_order_relaxed) - received < 2;
}

void DirectBackend::wait_for_progress(std::span<Transfer* const> transfers, Patience patience) {
  const auto ready = [&] {
    if (poked_.load() && poked_.exchange(0)) return true;
    return std::any_of(transfers.begin(), transfers.end(), [&](const Transfer* t) { return may_progress(*t); });
  };
  const auto behind = [&](int other) {
    return std::any_of(transfers.begin(), transfers.end(),
                       [&](const Transfer* t) { return t->operation->peer == other; });
  };
  control(rank()).inside.store(1, std::memory_order_relaxed);
  await(*transfers[0]->operation, patience, ready, behind);
  control(rank()).inside.store(0, std::memory_order_relaxed);
}

}  // namespace weft::comm
