/** A recorded answer in the form it did not come in: a stream as a whole reply, or the reverse. */
import type { DialectName } from '../config/provider-schema.ts';
import type { Recording } from '../core/recording.ts';
import type { Conversation, ReplyIdentity, ReplyRelay } from './dialect.ts';
import { EventStreamReader } from './event-stream.ts';
import { ToolNames } from './tool-names.ts';
import { Tally } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

export function retell(
  { form, text }: Recording,
  dialect: DialectName,
  identity: ReplyIdentity,
  { client, dialogue }: Pick<Conversation, 'client' | 'dialogue'>,
): ReplyRelay | undefined {
  const upstream = upstreamDialect(dialect);
  if (!upstream) return undefined;
  // A name that was too long for the upstream comes back as the client's own.
  const names = new ToolNames(dialogue(), upstream.toolNameLengthMax);
  if (form === 'whole') {
    const writer = client.openStream(identity);
    const tally = new Tally(writer, names);
    if (upstream.readReply(text, tally)) return undefined;
    const said = writer.take();
    return { facts: tally.facts, write: (closing) => said + writer.close(closing) };
  }
  const writer = client.openReply(identity);
  const tally = new Tally(writer, names);
  const reader = upstream.openStream(tally);
  const events = new EventStreamReader();
  for (const message of [...events.push(text), ...events.end()]) {
    if (reader.push(message)) return undefined;
  }
  return { facts: tally.facts, write: (closing) => writer.write(closing) };
}
