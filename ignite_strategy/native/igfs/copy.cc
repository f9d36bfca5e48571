#include "native/igfs/copy.h"

#include <vector>

#include "native/igfs/file_reader.h"
#include "native/igfs/file_writer.h"

namespace ignite_strategy {
namespace igfs {

void CopyFile(const std::shared_ptr<Tree>& source_tree, const Path& source,
              const std::shared_ptr<Tree>& target_tree, const Path& target, const Wait& wait) {
  constexpr std::size_t kPiece = 1 << 20;
  const auto reader = FileReader::Open(source_tree, source, wait);
  if (source_tree == target_tree && source == target) return;
  const auto writer = FileWriter::Open(target_tree, target, Mode::kReplace, wait);
  std::vector<char> piece(kPiece);
  for (std::uint64_t at = 0;;) {
    const std::size_t got = reader->Read(at, piece.size(), piece.data(), wait);
    writer->Append(piece.data(), got, wait);
    at += got;
    if (got < piece.size()) break;
  }
  writer->Close(wait);
}

}  // namespace igfs
}  // namespace ignite_strategy
