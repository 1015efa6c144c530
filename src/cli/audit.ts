import { allTime } from '../records/period.ts';
import { singleCommandTopic } from './command.ts';
import { formatMinute, printJson, printTable } from './output.ts';

const entriesMax = 100;

export const audit = singleCommandTopic('audit', 'Show who changed what', {
  summary: `Show the latest ${entriesMax} changes to configuration, tenants, keys, and credits`,
  options: {
    action: { value: '<action>', summary: 'Only this action, or a group such as "key."' },
    actor: { value: '<name>', summary: 'Only changes by this key, user, or "admin"' },
    tenant: { value: '<id>', summary: 'Only changes that concern this tenant' },
    target: { value: '<name>', summary: 'Only changes of this object' },
  },
  async run(context) {
    const { args } = context;
    const { audit: reads } = await context.services();
    const filter = {
      ...allTime,
      action: args.text('action') ?? null,
      actor: args.text('actor') ?? null,
      tenantId: args.text('tenant') ?? null,
      target: args.text('target') ?? null,
    };
    const data = await reads.list(filter, null, entriesMax);
    if (args.has('json')) return printJson(context, { data });
    const rows = data.map((entry) => [
      formatMinute(new Date(entry.createdAt).toISOString()),
      entry.actor,
      entry.origin,
      entry.action,
      entry.tenantId,
      entry.target,
    ]);
    const header = ['TIME (UTC)', 'ACTOR', 'FROM', 'ACTION', 'TENANT', 'TARGET'];
    printTable(context, 'changes', header, rows);
  },
});
