"""What people do in workflows: the inbox of approvals that wait, and who decides in whose place."""
