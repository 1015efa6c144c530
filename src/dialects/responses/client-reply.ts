/** An answer told in our words, as one response. */
import type { ReplyClosing, ReplyIdentity, ReplyWriter } from '../dialect.ts';
import { OutputWriter } from './output-writer.ts';
import { type Echo, ended } from './response-object.ts';
import type { ToolForms } from './tool-forms.ts';

export class ResponsesReplyWriter extends OutputWriter implements ReplyWriter {
  readonly #identity: ReplyIdentity;
  readonly #echo: Echo;

  constructor(identity: ReplyIdentity, forms: ToolForms, echo: Echo) {
    super(identity.id, forms);
    this.#identity = identity;
    this.#echo = echo;
  }

  write(closing: ReplyClosing): string {
    this.endItems();
    const outcome = ended(this.reason, this.output, closing);
    return JSON.stringify(this.#echo.write(this.#identity, outcome));
  }

  protected override say(): void {}

  /** A whole answer is bounded where it is read. */
  protected override grow(): void {}
}
