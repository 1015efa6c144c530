import { type OggPage, readOggPages } from './ogg-pages.ts';

/** One Ogg Opus file taken apart. */
export interface OpusFile {
  /** `OpusHead` and `OpusTags`, each on a page of its own as the format demands. */
  readonly headers: readonly OggPage[];
  readonly pages: readonly OggPage[];
  /** At 48 kHz, by what the packets say; the last page may declare fewer and so trim the end. */
  readonly samples: bigint;
  /** The channels, which every file that is joined must share. */
  readonly kind: string;
}

/** Servers that speak sentence by sentence send one file behind the other. */
export function readOpus(file: Uint8Array): readonly OpusFile[] | undefined {
  const pages = readOggPages(file) ?? [];
  const starts = [...pages.keys()].filter((at) => isHead(pages[at]));
  const files = starts.map((at, index) => readOne(pages.slice(at, starts[index + 1])));
  const known = files.filter((one) => one !== undefined);
  return starts[0] === 0 && known.length === files.length ? known : undefined;
}

function isHead(page: OggPage | undefined): boolean {
  return page !== undefined && startsWith(page.body, 'OpusHead');
}

function readOne(pages: readonly OggPage[]): OpusFile | undefined {
  const [head, tags] = pages;
  if (!head || !tags || !startsWith(tags.body, 'OpusTags')) return undefined;
  // Tags with a picture run over several pages; the sound starts on the page behind.
  let headerPages = 2;
  while (pages[headerPages]?.isContinued) headerPages += 1;
  const sound = pages.slice(headerPages);
  if (sound.length === 0) return undefined;
  return {
    headers: pages.slice(0, headerPages),
    pages: sound,
    samples: packetsOf(sound).reduce((sum, packet) => sum + BigInt(samplesOf(packet)), 0n),
    kind: `${head.body[9]} channels`,
  };
}

function startsWith(bytes: Uint8Array, text: string): boolean {
  return Buffer.from(bytes.subarray(0, text.length)).toString('latin1') === text;
}

/** The first two bytes of every packet: all that its length depends on. */
function packetsOf(pages: readonly OggPage[]): Uint8Array[] {
  const packets: Uint8Array[] = [];
  let open: Uint8Array | undefined;
  for (const { lacing, body } of pages) {
    let at = 0;
    for (const length of lacing) {
      open ??= body.subarray(at, at + 2);
      at += length;
      // A segment of 255 bytes means that the packet goes on.
      if (length === 255) continue;
      packets.push(open);
      open = undefined;
    }
  }
  return packets;
}

/** Frame lengths in samples at 48 kHz, by the upper five bits of a packet (RFC 6716, 3.1). */
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
