/** Writes a journal line with its checksum, without using the gateway's code. */
export function journalLine(json: string): string {
  const content = json.slice(0, -1);
  return `${content},"sum":${Bun.hash.crc32(content)}}\n`;
}
