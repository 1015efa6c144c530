/** A parsed Ogg Opus file. */
export interface OpusFile {
  /** `OpusHead` and `OpusTags`, on separate pages as the format requires. */
  readonly headers: readonly OggPage[];
  readonly pages: readonly OggPage[];
  /** At 48 kHz, counted in the packets. The last page may declare fewer samples to trim the end. */
  readonly samples: bigint;
  /** Only files with the same number of channels can be joined. */
  readonly channels: number;
}

/** Reads the concatenated files that servers send when they speak sentence by sentence. */
export function readOpus(file: Uint8Array): readonly OpusFile[] | undefined {
  const pages = readOggPages(file) ?? [];
  const starts = [...pages.keys()].filter((at) => isHead(pages[at]));
  const files = starts.map((at, index) => readOpusFile(pages.slice(at, starts[index + 1])));
  const valid = files.filter((file) => file !== undefined);
  return starts[0] === 0 && valid.length === files.length ? valid : undefined;
}

function isHead(page: OggPage | undefined): boolean {
  return page !== undefined && startsWith(page.body, 'OpusHead');
}

function readOpusFile(pages: readonly OggPage[]): OpusFile | undefined {
  const [head, tags] = pages;
  if (!head || !tags || !startsWith(tags.body, 'OpusTags')) return undefined;
  // Tags with an image span several pages. The audio starts on the page after them.
  let headerPages = 2;
  while (pages[headerPages]?.isContinued) headerPages += 1;
  const audioPages = pages.slice(headerPages);
  if (audioPages.length === 0) return undefined;
  return {
    headers: pages.slice(0, headerPages),
    pages: audioPages,
    samples: packetsOf(audioPages).reduce((sum, packet) => sum + BigInt(samplesOf(packet)), 0n),
    channels: head.body[9] ?? 0,
  };
}

function startsWith(bytes: Uint8Array, text: string): boolean {
  return Buffer.from(bytes.subarray(0, text.length)).toString('latin1') === text;
}

/** Returns the first two bytes of each packet, which determine its duration. */
function packetsOf(pages: readonly OggPage[]): Uint8Array[] {
  const packets: Uint8Array[] = [];
  let open: Uint8Array | undefined;
  for (const { lacing, body } of pages) {
    let at = 0;
    for (const length of lacing) {
      open ??= body.subarray(at, at + 2);
      at += length;
      // After a segment of 255 bytes, the packet continues.
      if (length === 255) continue;
      packets.push(open);
      open = undefined;
    }
  }
  return packets;
}

/** Frame durations in samples at 48 kHz, by the upper five bits of a packet (RFC 6716, 3.1). */
const silk = [480, 960, 1_920, 2_880];
const hybrid = [480, 960];
const celt = [120, 240, 480, 960];

function samplesOf(packet: Uint8Array): number {
  const [toc = 0, count = 0] = packet;
  const config = toc >> 3;
  const table = config < 12 ? silk : config < 16 ? hybrid : celt;
  const frame = table[config % table.length] ?? 0;
  const frames = [1, 2, 2, count & 0x3f][toc & 3] ?? 1;
  return packet.length === 0 ? 0 : frame * frames;
}

/** A page of an Ogg file, the container format of Opus. */
export interface OggPage {
  /** True if a packet continues from the previous page. */
  readonly isContinued: boolean;
  /** Samples up to the end of the last packet that ends on this page, or -1 if none does. */
  readonly granule: bigint;
  readonly lacing: Uint8Array;
  readonly body: Uint8Array;
}

const headBytes = 27;

/** At one packet per page, this is half an hour of speech. Pieces are a few minutes long. */
const pagesMax = 100_000;

/** Returns the pages of a file, or undefined if it isn't a valid Ogg file. */
export function readOggPages(file: Uint8Array): OggPage[] | undefined {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const pages: OggPage[] = [];
  for (let index = 0; index < file.length; ) {
    if (pages.length === pagesMax) return undefined;
    if (index + headBytes > file.length || view.getUint32(index) !== 0x4f67_6753) return undefined;
    const bodyAt = index + headBytes + view.getUint8(index + 26);
    if (bodyAt > file.length) return undefined;
    const lacing = file.subarray(index + headBytes, bodyAt);
    const end = bodyAt + lacing.reduce((sum, length) => sum + length, 0);
    if (end > file.length) return undefined;
    pages.push({
      isContinued: (view.getUint8(index + 5) & 1) !== 0,
      granule: view.getBigInt64(index + 6, true),
      lacing,
      body: file.subarray(bodyAt, end),
    });
    index = end;
  }
  return pages.length > 0 ? pages : undefined;
}

interface PagePosition {
  readonly serial: number;
  readonly sequence: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

export function writeOggPage(page: OggPage, position: PagePosition): Uint8Array {
  const bytes = new Uint8Array(headBytes + page.lacing.length + page.body.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 0x4f67_6753);
  const flags = [page.isContinued, position.isFirst, position.isLast];
  view.setUint8(
    5,
    flags.reduce((sum, flag, bit) => sum | (Number(flag) << bit), 0),
  );
  view.setBigInt64(6, page.granule, true);
  view.setUint32(14, position.serial, true);
  view.setUint32(18, position.sequence, true);
  view.setUint8(26, page.lacing.length);
  bytes.set(page.lacing, headBytes);
  bytes.set(page.body, headBytes + page.lacing.length);
  view.setUint32(22, checksum(bytes), true);
  return bytes;
}

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24;
  for (let bit = 0; bit < 8; bit += 1) {
    value = (value & 0x8000_0000) === 0 ? value << 1 : (value << 1) ^ 0x04c1_1db7;
  }
  return value >>> 0;
});

/** Computes Ogg's variant of CRC-32: most significant bit first, initial value 0, no inversion. */
function checksum(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc = ((crc << 8) ^ (crcTable[((crc >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0;
  }
  return crc;
}
