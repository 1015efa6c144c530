import type { Migration } from './migration.ts';

export const jobs: Migration = {
  number: 5,
  name: 'audio jobs, their objects and webhooks',
  statements: ({ id, integer, tableEnd }) => [
    // claimable_at is when a worker may claim the job. It is the end of the lease while the job
    // runs, and null once the job has ended. lease is the token of the worker that runs the job.
    `create table jobs (
      id ${id} primary key,
      tenant_id ${id} not null references tenants (id),
      key_id ${id} not null,
      model text not null,
      request text not null,
      input_key text not null,
      input_bytes ${integer} not null,
      metadata text not null,
      webhook_url text,
      status text not null check (
        status in ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired')
      ),
      attempts ${integer} not null,
      lease text,
      claimable_at ${integer},
      pieces_done ${integer} not null,
      pieces_total ${integer},
      cost ${integer} not null check (cost >= 0),
      units ${integer} not null,
      output_key text,
      output_bytes ${integer},
      failure text,
      created_at ${integer} not null,
      started_at ${integer},
      completed_at ${integer},
      expires_at ${integer}
    )${tableEnd}`,
    'create index jobs_by_tenant on jobs (tenant_id, created_at, id)',
    `create index jobs_claimable on jobs (tenant_id, claimable_at, created_at, id)
      where claimable_at is not null`,
    `create index jobs_expiring on jobs (expires_at) where status = 'succeeded'`,
    'create index jobs_completed on jobs (completed_at) where completed_at is not null',
    // One row per tenant with waiting jobs. The tenant that was served longest ago is next.
    `create table job_turns (
      tenant_id ${id} primary key,
      served_at ${integer} not null
    )${tableEnd}`,
    `create table job_pieces (
      job_id ${id} not null references jobs (id) on delete cascade,
      number ${integer} not null,
      object_key text not null,
      cost ${integer} not null check (cost >= 0),
      units ${integer} not null,
      provider text not null,
      primary key (job_id, number)
    )${tableEnd}`,
    // Every object is registered before its first byte is stored, so that none is leaked.
    `create table job_objects (
      key ${id} primary key,
      job_id ${id} not null,
      delete_at ${integer}
    )${tableEnd}`,
    'create index job_objects_by_job on job_objects (job_id)',
    'create index job_objects_due on job_objects (delete_at) where delete_at is not null',
    `create table webhooks (
      id ${id} primary key,
      job_id ${id} not null,
      tenant_id ${id} not null,
      url text not null,
      event text not null,
      attempts ${integer} not null,
      due_at ${integer} not null,
      created_at ${integer} not null
    )${tableEnd}`,
    'create index webhooks_due on webhooks (due_at)',
  ],
};
