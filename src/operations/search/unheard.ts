import { malformed } from '../../dialects/failure.ts';
import { type AttemptResult, failed, failureOf, type OpenStream } from '../../upstream/attempt.ts';
import { over, silence } from '../../upstream/source.ts';

/** Queries are short. A longer answer is relayed like every stream: it is paid for as it grows. */
const unheardCharactersMax = 16 * 1024;

/**
 * Reads the rounds of which the client sees nothing, up to the first that tells it something. A
 * failure until then is like that of any attempt: it costs nothing, and another provider may take
 * over.
 */
export async function hearUnheard(
  first: OpenStream,
  isUnheard: () => boolean,
  client: AbortSignal,
): Promise<AttemptResult> {
  let stream = first;
  while (isUnheard() && stream.relay.facts.outputCharacters <= unheardCharactersMax) {
    const next = await oneFurther(stream);
    // A client that left pays for what was done, as it does after the first words.
    if (client.aborted) break;
    if (next.kind !== 'stream') return next;
    stream = next;
    if (stream.ended && !stream.openSequel) break;
  }
  return stream;
}

async function oneFurther(stream: OpenStream): Promise<AttemptResult> {
  const { relay, source, line, ended } = stream;
  const { failure } = relay.facts;
  const isBroken = ended && !relay.finished;
  if (!failure && !isBroken) return ended ? followed(stream) : heard(stream);
  source.close();
  line.hangUp();
  return failed(failure ?? malformed('The provider broke off in the middle of its answer.'));
}

/** Reads one more piece of the stream. */
async function heard(stream: OpenStream): Promise<AttemptResult> {
  const { relay, reader, source, line } = stream;
  try {
    source.expectEnd(relay);
    const piece = await source.next();
    if (piece === silence) return stream;
    let { opening } = stream;
    const { outputCharacters } = relay.facts;
    const messages = piece === over ? reader.end() : reader.push(piece);
    for (const message of messages) opening += relay.push(message);
    const saysMore = relay.facts.outputCharacters > outputCharacters;
    if (saysMore) source.expectMore();
    source.noteWords(saysMore);
    return { ...stream, opening, ended: piece === over };
  } catch (thrown) {
    source.close();
    return failed(failureOf(thrown, line));
  }
}

/** Opens the round that follows one that is over, or adds the last words. */
async function followed(stream: OpenStream): Promise<AttemptResult> {
  const { opening, source, line, openSequel } = stream;
  source.close();
  line.hangUp();
  const next = (await openSequel?.()) ?? '';
  if (typeof next === 'string') {
    const { openSequel: _, ...last } = stream;
    return { ...last, opening: opening + next };
  }
  return next.kind === 'stream' ? { ...next, opening: opening + next.opening } : next;
}
