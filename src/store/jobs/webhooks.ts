import type { Selectable } from 'kysely';
import type { ClaimTerms, Webhook, WebhookQueue } from '../../jobs/queue.ts';
import { OnDatabase } from '../database.ts';
import type { WebhooksTable } from './schema.ts';

export class SqlWebhooks extends OnDatabase implements WebhookQueue {
  async claim({ now, until, except }: ClaimTerms): Promise<Webhook | undefined> {
    const { read, write } = this.database;
    const isDue = await read
      .selectFrom('webhooks')
      .select('id')
      .where('due_at', '<=', now)
      .limit(1)
      .executeTakeFirst();
    if (!isDue) return undefined;
    const row = await write
      .updateTable('webhooks')
      .set((of) => ({ due_at: until, attempts: of('attempts', '+', 1) }))
      .where('id', '=', (of) => {
        let next = of.selectFrom('webhooks').select('id').where('due_at', '<=', now);
        if (except.length > 0) next = next.where('tenant_id', 'not in', except);
        return (
          next
            .orderBy('due_at')
            .orderBy('id')
            .limit(1)
            // Processes that claim at the same time get different webhooks.
            .forUpdate()
            .skipLocked()
        );
      })
      .returningAll()
      .executeTakeFirst();
    return row && webhookOf(row);
  }

  async retry(id: string, dueAt: number): Promise<void> {
    await this.database.write
      .updateTable('webhooks')
      .set({ due_at: dueAt })
      .where('id', '=', id)
      .execute();
  }

  async remove(id: string): Promise<void> {
    await this.database.write.deleteFrom('webhooks').where('id', '=', id).execute();
  }
}

function webhookOf(row: Selectable<WebhooksTable>): Webhook {
  return {
    id: row.id,
    jobId: row.job_id,
    tenantId: row.tenant_id,
    url: row.url,
    event: row.event,
    attempts: row.attempts,
    createdAt: row.created_at,
  };
}
