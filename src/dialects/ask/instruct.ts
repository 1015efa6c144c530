import type { ChatAsk } from '../../core/chat.ts';
import type { Source } from './edit-body.ts';
import { exactWords } from './exact-body.ts';

interface Request {
  readonly ask: ChatAsk;
  readonly body: object;
  readonly source: Source | null;
}

/** A request with instructions of ours: longer, and no longer what the client sent. */
export function instructed<Given extends Request>(
  request: Given,
  text: string,
  write: (body: Given['body'], text: string) => Given['body'],
): Given {
  const inputBytes = request.ask.inputBytes + Buffer.byteLength(text);
  const ask = { ...request.ask, inputBytes };
  const body = exactWords(request.body, request.source);
  return { ...request, ask, body: write(body, text), source: null };
}
