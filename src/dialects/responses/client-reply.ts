/** An answer told in our words, as one response. */
import type { ReplyClosing, ReplyWriter } from '../dialect.ts';
import { OutputWriter } from './output-writer.ts';
import { ended } from './response-object.ts';

export class ResponsesReplyWriter extends OutputWriter implements ReplyWriter {
  write(closing: ReplyClosing): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, closing);
    return JSON.stringify(this.echo.write(this.identity, outcome));
  }

  protected override say(): void {}

  /** Counts nothing: the length of a whole answer is limited where it is read. */
  protected override grow(): void {}
}
