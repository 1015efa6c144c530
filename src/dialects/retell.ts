/** A recorded answer in the form it did not come in: a stream as a whole reply, or the reverse. */
import type { DialectName } from '../config/provider-schema.ts';
import type { Recording } from '../core/recording.ts';
import type { Conversation, ReplyIdentity, ReplyRelay, UpstreamFailure } from './dialect.ts';
import { translate } from './translation.ts';
import { upstreamDialect } from './upstreams.ts';

export function retell(
  { form, text }: Recording,
  dialect: DialectName,
  identity: ReplyIdentity,
  { client, dialogue }: Pick<Conversation, 'client' | 'dialogue'>,
): ReplyRelay | undefined {
  const upstream = upstreamDialect(dialect);
  const way = upstream && translate(dialogue(), client, upstream);
  if (form !== 'whole') return answerIn(way?.joinStream(text, identity));
  const streamed = answerIn(way?.streamReply(text, identity));
  if (!streamed) return undefined;
  const { relay, opening } = streamed;
  return { facts: relay.facts, write: (closing) => opening + relay.close(closing) };
}

function answerIn<Answer extends object>(
  read: Answer | UpstreamFailure | undefined,
): Answer | undefined {
  return read && 'kind' in read ? undefined : read;
}
