/** A recorded answer in the form it did not come in: a stream as a whole reply, or the reverse. */
import type { DialectName } from '../config/provider-schema.ts';
import type { Recording } from '../core/recording.ts';
import type { Conversation, ReplyIdentity, ReplyRelay } from './dialect.ts';
import { translate } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

export function retell(
  { form, text }: Recording,
  dialect: DialectName,
  identity: ReplyIdentity,
  conversation: Conversation,
): ReplyRelay | undefined {
  const upstream = upstreamDialect(dialect);
  if (!upstream) return undefined;
  const translation = translate(conversation.dialogue(), conversation.client, upstream);
  if (form === 'stream') {
    const joined = translation.joinStream(text, identity);
    return 'kind' in joined ? undefined : joined;
  }
  const streamed = translation.streamReply(text, identity);
  if (!streamed || 'kind' in streamed) return undefined;
  const { relay, opening } = streamed;
  return { facts: relay.facts, write: (closing) => opening + relay.close(closing) };
}
