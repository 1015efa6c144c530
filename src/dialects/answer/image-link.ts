/**
 * A picture by its address, for clients in whose format only bytes can be one: most of them show
 * Markdown, and in the others it can be copied.
 */
export function imageLink(url: string): string {
  const safe = url.replace(/[ ()]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
  return `\n![image](${safe})\n`;
}
