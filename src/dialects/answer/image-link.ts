import type { AnswerListener } from '../../core/answer.ts';

/**
 * A picture by its address. In the format of some clients only bytes can be one: they are told a
 * link, since most of them show Markdown, and in the others it can be copied.
 */
export function tellImageAt(url: string, to: AnswerListener): void {
  const safe = url.replace(/[ ()]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
  if (to.imageAt) to.imageAt(url);
  else to.text(`\n![image](${safe})\n`);
}
