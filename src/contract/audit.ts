import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { count, inlineRecord, lineField, record, type Shape, text, time } from './fields.ts';
import { datesQuery, limitQuery } from './query.ts';
import { csv, type RouteDoc } from './route-doc.ts';

const state = (description: string) =>
  Type.Unknown({ description: `${description} Secrets are replaced by labels.` });

const auditEntrySchema = record('AuditEntry', {
  id: count('Increases with every entry.'),
  created_at: time(),
  actor: text(
    'A key ID, `admin`, a user of the machine for a command, `operator` for a signal, or ' +
      '`tollgate` for its own changes.',
  ),
  origin: oneOf('http', 'cli', 'signal', 'start'),
  address: nullable(text('The address of the client.')),
  request_id: nullable(text()),
  action: text('Such as `provider.update`.'),
  tenant_id: nullable(text()),
  target: text('What was changed, such as the name of a provider or the ID of a key.'),
  before: state('The state before the change; null if there was none.'),
  after: state('The state after the change; null if it was deleted.'),
});
export type AuditEntryObject = Shape<typeof auditEntrySchema>;

const auditListSchema = inlineRecord({
  data: Type.Array(auditEntrySchema),
  next_before: nullable(count('`before` for the next page; null on the last one.')),
});
export type AuditListObject = Shape<typeof auditListSchema>;

const filter = (description: string) => ({ ...lineField(1, 200), description });

export const auditFilterQuery = {
  action: filter('An action such as `key.create`, or a group such as `key.`.'),
  actor: filter('Who made the change.'),
  tenant_id: filter('The tenant that the change concerns.'),
  target: filter('What was changed.'),
};

export const beforeSchema = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'Only entries with a lower ID.',
});

export const auditDocs = {
  list: {
    summary: 'Read the audit log',
    details: 'Changes to the configuration, tenants, keys, and credits, newest first.',
    query: { ...auditFilterQuery, ...datesQuery, ...limitQuery, before: beforeSchema },
    responses: { 200: auditListSchema },
  },
  csv: {
    summary: 'Download the audit log',
    query: { ...auditFilterQuery, ...datesQuery },
    responses: { 200: csv },
  },
} satisfies Record<string, RouteDoc>;
