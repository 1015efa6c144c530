import type { AnswerListener } from '../../core/answer.ts';

/**
 * Tells a picture by its address. Some clients' formats have pictures only as bytes: they get a
 * Markdown link, which most of them show and the others let users copy.
 */
export function tellImageAt(url: string, to: AnswerListener): void {
  const safe = url.replace(/[ ()]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
  if (to.imageAt) to.imageAt(url);
  else to.text(`\n![image](${safe})\n`);
}
